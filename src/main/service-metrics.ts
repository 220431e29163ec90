import type { Sql } from '../state/store/database.ts';
import { type ExportHealth, readExportHealth } from '../state/store/export-health.ts';
import { readServiceState } from '../state/store/service-state.ts';
import type { Metrics } from '../foundation/telemetry/metrics.ts';
import { turns } from '../foundation/domain/causes.ts';

/** Fills the gauges of the whole service from Postgres at each scrape. */
export function watchService(metrics: Metrics, db: Sql): void {
  const { tickLagSeconds, waitingRuns, runningRuns, workerCapacity } = metrics.service;
  const { unsettledIntervals, oldestUnsettledSeconds, workSetAside } = metrics.service;
  let reading: Promise<void> | null = null;
  const read = async () => {
    const state = await readServiceState(db).catch(() => null);
    const health = await readExportHealth(db).catch(() => null);
    if (!state || !health) return;
    showHealth(metrics.service, health);
    tickLagSeconds.set(state.tickLagSeconds);
    waitingRuns.set({ kind: 'live' }, state.waitingLive);
    waitingRuns.set({ kind: 'backfill' }, state.waitingBackfill);
    runningRuns.set(state.running);
    workerCapacity.set(state.capacity);
    unsettledIntervals.set(state.unsettled);
    oldestUnsettledSeconds.set(state.oldestUnsettledSeconds);
    workSetAside.set(state.workSetAside);
  };
  // prom-client collects all gauges at once, so all wait for the same read.
  const collect = () => {
    reading ??= read().finally(() => {
      reading = null;
    });
    return reading;
  };
  for (const gauge of Object.values(metrics.service)) Object.assign(gauge, { collect });
}

function showHealth(gauges: Metrics['service'], health: ExportHealth): void {
  gauges.failingExports.set(health.failing);
  gauges.exhaustedExports.set(health.exhausted);
  gauges.lateExports.set(health.late);
  gauges.pausedExports.set({ by: 'person' }, health.pausedByPerson);
  gauges.pausedExports.set({ by: 'sluice' }, health.pausedBySluice);
  gauges.worstLagSeconds.set(health.worstLagSeconds);
  gauges.longestLateSeconds.set(health.longestLateSeconds);
  gauges.waitingNotifications.set(health.waitingNotifications);
  gauges.oldestDueNotificationSeconds.set(health.oldestDueNotificationSeconds);
  for (const turn of turns) gauges.overdueIntervals.set({ turn }, health.overdue[turn]);
  gauges.atRiskIntervals.set(health.atRisk);
  gauges.healingIntervals.set(health.healing);
  gauges.openCauses.set(health.openCauses);
  gauges.failingTargets.set(health.failingTargets);
}
