/*
 * Check that this program matches a plan's assumptions. The leader uses the data that firnd
 * registered at its start. Where firn-worker was replaced since, this check fails at its first
 * plan, before a link waits in vain or other bits are computed.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "kernels/backend.h"

/**
 * plan_match_check() - compare link protocol and arithmetic of @plan with this program's on @device
 *
 * Return: 0; -EPROTONOSUPPORT: they differ, @error names the difference; errors of
 * kernel_backend_identity()
 */
int plan_match_check(const struct plan *plan, enum kernel_backend device,
                     struct error *error) CHECK_RESULT;
