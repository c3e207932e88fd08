/*
 * Is this program what a plan takes it for? The leader goes by what firnd registered when it
 * started. Where firn-worker was replaced since, its first plan says so, before a link waits in
 * vain or other bits are computed.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "kernels/backend.h"

/**
 * plan_match_check() - link protocol and arithmetic of @plan against this program's on @device
 *
 * Return: 0; -EPROTONOSUPPORT: they differ, @error says in what; what backend identities return
 */
int plan_match_check(const struct plan *plan, enum kernel_backend device,
                     struct error *error) CHECK_RESULT;
