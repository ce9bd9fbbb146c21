/* Loads a caPutLog that somebody has built as a library, into an IOC that has none: $CAPUTLOG_LIBRARY. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void register_routines(void)
{
    void *library = dlopen(getenv("CAPUTLOG_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);
    /* what the registrar of its database definition is called by */
    void (**registrar)(void) = library ? dlsym(library, "pvar_func_caPutLogRegister") : NULL;
    if (!registrar) {
        fprintf(stderr, "caPutLog: %s\n", dlerror());
        exit(1);
    }
    (*registrar)();
}
