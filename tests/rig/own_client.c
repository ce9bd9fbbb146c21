/* A Channel Access client of libca.
 *
 *     own_client PV
 *
 * Connects, says "ready", then puts each number of stdin and says "done".
 */
#include <cadef.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    char line[100];
    chid channel;

    if (argc != 2 || ca_context_create(ca_enable_preemptive_callback) != ECA_NORMAL
        || ca_create_channel(argv[1], NULL, NULL, 0, &channel) != ECA_NORMAL || ca_pend_io(20) != ECA_NORMAL)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        double value = atof(line);

        if (ca_put(DBR_DOUBLE, channel, &value) != ECA_NORMAL || ca_flush_io() != ECA_NORMAL)
            return 1;
        printf("done\n");
        fflush(stdout);
    }
    return 0;
}
