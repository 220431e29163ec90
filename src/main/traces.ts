import { createRequire } from 'node:module';
import type { Config } from '../foundation/config/config.ts';
import type { Logger } from '../foundation/telemetry/logger.ts';
import type { OpenTraces } from '../foundation/telemetry/open-traces.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

/** Opens traces if OTEL_EXPORTER_OTLP_ENDPOINT is set; otherwise null, and nothing is loaded. */
export async function tracesOf(
  config: Config,
  role: string,
  logger: Logger,
): Promise<OpenTraces | null> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === null) return null;
  const { openTraces } = await import('../foundation/telemetry/open-traces.ts');
  const settings = {
    endpoint,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: config.OTEL_SERVICE_NAME,
    serviceVersion: version,
    role,
    ratio: Number(config.OTEL_TRACES_SAMPLER_ARG ?? 1),
  };
  return openTraces(settings, (message) => logger.warn(`traces could not be sent: ${message}`));
}
