import { expect, test } from 'vitest';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';

test('no metric has a label that Prometheus itself gives to each scrape, and would rename', () => {
  const metrics = createMetrics().registry.getMetricsAsArray();
  const labels = metrics.flatMap((metric) =>
    'labelNames' in metric ? (metric.labelNames as readonly string[]) : [],
  );
  expect(labels).toEqual(expect.arrayContaining(['end', 'handler', 'code']));
  expect(labels).not.toContain('job');
  expect(labels).not.toContain('instance');
});
