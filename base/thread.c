#include "base/thread.h"

#include <pthread.h>

int thread_start_detached(void *(*run)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int status = pthread_attr_init(&attributes);

    if (status)
        return -status;
    status = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (!status)
        status = pthread_create(&thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return -status;
}
