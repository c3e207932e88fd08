/* The links of a generation, which the control thread breaks when a command cannot wait. */
#pragma once

#include <pthread.h>

#include "comm/mesh/mesh.h"
#include "worker/device/routes.h"

struct session_links {
    pthread_mutex_t lock; /* guards mesh against the control thread */
    struct mesh *mesh;
    struct mesh_unreached unreached; /* since the links of this generation were opened */
    struct routes routes;            /* over the mesh, while there is an engine */
};
