#include "worker/routes.h"

int routes_open(struct mesh *mesh, struct routes *ret_routes)
{
    struct routes routes = {.mesh = mesh};
    int status = carrier_mesh_new(mesh, &routes.over_mesh);

    if (status)
        return status;
    for (unsigned i = 0; i < ROUTES; i++)
        routes.carriers[i] = routes.over_mesh;
    *ret_routes = routes;
    return 0;
}

void routes_close(struct routes *routes)
{
    carrier_free(routes->over_mesh);
    *routes = (struct routes){0};
}
