/* A sub record that gives other records' states other names, as asyn does when a driver calls back with other enum strings
 * (setEnums in devAsynInt32.c): it writes the fields in memory with the record locked, and posts DBE_PROPERTY. No field
 * is put to.
 *
 * ioc.py --routines loads it and calls register_routines(). A numbers the change: the names then end with that
 * number.
 */
#include <stdio.h>
#include <string.h>

#include <caeventmask.h>
#include <dbAccess.h>
#include <dbEvent.h>
#include <dbLock.h>
#include <registryFunction.h>

#include <biRecord.h>
#include <mbboRecord.h>
#include <subRecord.h>

static long rename_states(struct subRecord *record)
{
    struct dbAddr address;
    int number = (int)record->a;

    if (number < 1)
        return 0;
    if (dbNameToAddr("STATES:MODE", &address) == 0) {
        mbboRecord *mode = (mbboRecord *)address.precord;

        dbScanLock((dbCommon *)mode);
        snprintf(mode->zrst, sizeof mode->zrst, "Idle%d", number);
        snprintf(mode->onst, sizeof mode->onst, "Run%d", number);
        db_post_events(mode, &mode->val, DBE_PROPERTY);
        dbScanUnlock((dbCommon *)mode);
    }
    if (dbNameToAddr("STATES:GATE", &address) == 0) {
        biRecord *gate = (biRecord *)address.precord;

        dbScanLock((dbCommon *)gate);
        snprintf(gate->znam, sizeof gate->znam, "Shut%d", number);
        snprintf(gate->onam, sizeof gate->onam, "Open%d", number);
        db_post_events(gate, &gate->val, DBE_PROPERTY);
        dbScanUnlock((dbCommon *)gate);
    }
    return 0;
}

void register_routines(void)
{
    registryFunctionAdd("rename_states", (REGISTRYFUNCTION)rename_states);
}
