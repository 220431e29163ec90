import type { Config } from '../foundation/config/config.ts';
import type {
  DestinationContext,
  DestinationDefinition,
} from '../rows/destinations/destination.ts';
import { joinDestinations, ownDefinitions } from '../rows/destinations/index.ts';
import { SharedProbes } from '../rows/destinations/shared-probes.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import { settingsOfRecipe } from '../foundation/domain/format-settings.ts';
import type { EncoderDefinition } from '../rows/encoders/encoder.ts';
import {
  encoderMemory,
  encoders,
  fileExtension,
  jsonLines,
  jsonOfField,
  openEncoder,
  readRejectedRows,
} from '../rows/encoders/index.ts';
import { memoryBudget } from '../service/admission/memory-budget.ts';
import { icebergTables } from '../extensions/iceberg/iceberg-table.ts';
import { createOutboundAgents } from '../foundation/security/outbound-filter.ts';
import type { ProxySettings } from '../foundation/security/proxy.ts';
import type { SecretBox } from '../foundation/security/secret-box.ts';
import { openDestinationConfig } from '../service/use-cases/exports/destination.ts';
import type { ReadRows, WithoutRows } from '../rows/pipeline/read-back.ts';
import type { TableFormat } from '../rows/pipeline/table-format.ts';
import type { Connectors } from '../service/worker/connectors.ts';
import type { SourceOf } from './models.ts';

export interface Registry {
  readonly encoders: readonly EncoderDefinition[];
  /** Including the file settings that all have. */
  readonly destinations: readonly DestinationDefinition[];
}

/** Joins encoders and destinations: the API's choices and the needs of a run follow from them. */
export function joinRegistry(
  formats: readonly EncoderDefinition[],
  destinations: readonly DestinationDefinition[],
): Registry {
  return { encoders: formats, destinations: joinDestinations(formats, destinations) };
}

export const registry = joinRegistry(encoders, ownDefinitions);

export function encoderOf({ encoders: known }: Registry, format: string): EncoderDefinition {
  const encoder = known.find((definition) => definition.format === format);
  if (!encoder) throw new TypeError(`unknown format ${format}`);
  return encoder;
}

export function destinationOf({ destinations }: Registry, type: string): DestinationDefinition {
  const matching = destinations.find((definition) => definition.type === type);
  if (matching) return matching;
  throw new SluiceError('destination.invalid_config', `unknown destination type ${type}`);
}

export function proxiesOf(
  config: Pick<Config, 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>,
): ProxySettings {
  const { HTTP_PROXY: http, HTTPS_PROXY: https, NO_PROXY: exceptions } = config;
  return { http, https, exceptions };
}

export function destinationContextOf(config: Config): DestinationContext {
  return {
    ...createOutboundAgents(
      config.ALLOWED_PRIVATE_ENDPOINTS,
      undefined,
      undefined,
      proxiesOf(config),
    ),
    allowAmbientCredentials: config.ALLOW_AMBIENT_CREDENTIALS,
    stsEndpoint: config.STS_ENDPOINT,
    fileDestinationRoot: config.FILE_DESTINATION_ROOT,
    partBytes: config.UPLOAD_PART_MIB * 1024 * 1024,
    partsInFlight: 2,
    // The maximum of S3. Later parts are larger, so that every file fits.
    maxParts: 10_000,
    connectTimeoutMs: 10_000,
    stallTimeoutMs: config.UPLOAD_STALL_SECONDS * 1_000,
    minBytesPerSecond: 16 * 1_024,
    requestRetry: { maxAttempts: 6, baseMs: 200, capMs: 10_000 },
    sharedProbes: new SharedProbes(),
  };
}

const once = { maxAttempts: 1, baseMs: 0, capMs: 0 };

export function joinConnectors(
  sourceOf: SourceOf,
  context: DestinationContext,
  secrets: SecretBox,
  known = registry,
): Connectors {
  return {
    openDestination({ exportId, externalId, changedForMs = 0, destination }, traits, isTried) {
      const config = openDestinationConfig(secrets, exportId, destination);
      const owner = { externalId, changedForMs };
      const used = isTried ? { ...context, requestRetry: once } : context;
      return destinationOf(known, destination.type).open(config, used, owner, traits);
    },
    tableOf: tablesOf(known).tableOf,
    sourceOf,
    readRows: readRowsBy(known),
    withoutRows: withoutRowsBy(known),
    keepsFiles: (type) => destinationOf(known, type).keepsFiles,
    placeOf(type, config) {
      const { keepsFiles, place, uri } = destinationOf(known, type);
      if (!keepsFiles) return null;
      const { prefix } = readFileSettings(config);
      return { place: place(config), address: uri(config, prefix) ?? `${place(config)}/${prefix}` };
    },
    memoryOf: (type, { format, compression, partitionBy }, transforms = false, ownSteps = 0) =>
      memoryBudget({
        transforms,
        ownSteps,
        encoderBytes: encoderMemory(encoderOf(known, format), compression),
        partBytes: destinationOf(known, type).buffersParts ? context.partBytes : 0,
        partsInFlight: context.partsInFlight,
        partitions: partitionBy.length > 0,
      }),
    encodingOf({ format, compression, ...given }) {
      const settings = settingsOfRecipe(given);
      const encoder = encoderOf(known, format);
      return {
        format,
        compression,
        settings,
        extension: fileExtension(encoder, compression),
        contentType: encoder.contentType,
        open: (columns, options = {}) =>
          openEncoder(encoder, compression, columns, { ...settings, ...options }),
        tableFields: (columns) => encoder.tableFields?.(columns, settings) ?? [],
        openJsonLines: (columns) => openEncoder(jsonLines, null, columns),
        toJson: ({ type }) => jsonOfField(type),
      };
    },
  };
}

export function tablesOf(known: Registry): TableFormat {
  return icebergTables((type, config, key) => destinationOf(known, type).uri(config, key) ?? key);
}

/** The way in which an erasure makes files again. */
export function withoutRowsBy(known: Registry): WithoutRows {
  return (path, made, isDropped) =>
    made === 'rejected'
      ? jsonLines.without(path, isDropped, null)
      : encoderOf(known, made.format).without(path, isDropped, made.compression, made);
}

/** The way in which `verify` reads files back. */
export function readRowsBy(known: Registry): ReadRows {
  return (path, made, columns) =>
    made === 'rejected'
      ? readRejectedRows(path, columns)
      : encoderOf(known, made.format).read(path, columns, made.compression, made);
}
