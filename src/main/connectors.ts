import type { Config } from '../config/config.ts';
import type { DestinationContext } from '../destinations/destination.ts';
import { findDestination } from '../destinations/index.ts';
import { SluiceError } from '../domain/errors.ts';
import type { Compression, FileFormat } from '../encoders/encoder.ts';
import { encoderOf, fileExtension, openEncoder } from '../encoders/index.ts';
import type { Encoding } from '../pipeline/interval-job.ts';
import { memoryBudget } from '../pipeline/memory-budget.ts';
import { createOutboundAgents } from '../security/outbound-filter.ts';
import type { Connectors } from '../worker/execute-run.ts';
import type { SourceOf } from './models.ts';

/** What destinations are given by this installation. */
export function destinationContextOf(config: Config): DestinationContext {
  return {
    ...createOutboundAgents(config.ALLOWED_PRIVATE_ENDPOINTS),
    allowAmbientCredentials: config.ALLOW_AMBIENT_CREDENTIALS,
    stsEndpoint: config.STS_ENDPOINT,
    fileDestinationRoot: config.FILE_DESTINATION_ROOT,
    partBytes: config.UPLOAD_PART_MIB * 1024 * 1024,
    partsInFlight: config.UPLOAD_PARTS_IN_FLIGHT,
    maxParts: config.UPLOAD_MAX_PARTS,
    connectTimeoutMs: 10_000,
    stallTimeoutMs: config.UPLOAD_STALL_SECONDS * 1_000,
    requestRetry: { maxAttempts: 6, baseMs: 200, capMs: 10_000 },
  };
}

/** Joins sources, encoders and destinations for the worker. */
export function joinConnectors(sourceOf: SourceOf, context: DestinationContext): Connectors {
  return {
    openDestination(type, destinationConfig, owner, traits) {
      const definition = findDestination(type);
      if (!definition) {
        throw new SluiceError('destination.invalid_config', `there is no destination ${type}`);
      }
      return definition.open(destinationConfig, context, owner, traits);
    },
    sourceOf,
    memoryOf: (type, { file_format: format, compression }) =>
      memoryBudget({
        format: String(format ?? 'JSONLines'),
        compression: typeof compression === 'string' ? compression : null,
        partBytes: type === 'S3' ? context.partBytes : 0,
        partsInFlight: context.partsInFlight,
      }),
    encodingOf: (destinationConfig) =>
      encodingOf(
        (destinationConfig.file_format ?? 'JSONLines') as FileFormat,
        (destinationConfig.compression ?? null) as Compression,
      ),
  };
}

function encodingOf(format: FileFormat, compression: Compression): Encoding {
  return {
    format,
    compression,
    extension: fileExtension(format, compression),
    contentType: encoderOf(format).contentType,
    open: (columns) => openEncoder({ format, compression, columns }),
    openJsonLines: (columns) => openEncoder({ format: 'JSONLines', compression: null, columns }),
  };
}
