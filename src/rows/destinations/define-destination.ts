import { type Static, type TObject, type TProperties, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type FileSettings, readFileSettings } from '../../foundation/domain/file-settings.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import type { StoreTraits } from '../../foundation/domain/store-traits.ts';
import type {
  Destination,
  DestinationContext,
  DestinationDefinition,
  DestinationOwner,
} from './destination.ts';

/** A destination's own settings: its properties with their defaults. */
export type Settings<Own extends TProperties> = Required<Static<TObject<Own>>>;

interface OwnDefinition<Own extends TProperties>
  extends Pick<
    DestinationDefinition,
    'type' | 'keepsFiles' | 'buffersParts' | 'holdsTables' | 'enclose' | 'keyIdProperty'
  > {
  readonly description: string;
  readonly properties: Own;
  /** Absent: always. */
  isAvailable?(context: DestinationContext): boolean;
  validate(
    settings: Settings<Own>,
    context: DestinationContext,
    files: FileSettings,
  ): readonly Problem[];
  place(settings: Settings<Own>): string;
  /** Absent: its objects have no address of their own. */
  uri?(settings: Settings<Own>, key: string): string;
  open(
    settings: Settings<Own>,
    files: FileSettings,
    context: DestinationContext,
    owner: DestinationOwner,
    traits: StoreTraits | null,
  ): Destination;
}

/** Gives a definition's own code the config as a type. The registry adds the file settings. */
export function defineDestination<Own extends TProperties>(
  own: OwnDefinition<Own>,
): DestinationDefinition {
  const { type, keepsFiles, buffersParts, holdsTables, enclose, keyIdProperty, description } = own;
  const configSchema = Type.Object(own.properties, { additionalProperties: false, description });
  const defaults = Value.Default(configSchema, {}) as object;
  const parse = (config: object) => ({ ...defaults, ...config }) as Settings<Own>;
  return {
    type,
    keepsFiles,
    buffersParts,
    holdsTables,
    enclose,
    keyIdProperty,
    configSchema,
    ownProperties: Object.keys(own.properties),
    isAvailable: (context) => own.isAvailable?.(context) ?? true,
    validate: (config, context) => own.validate(parse(config), context, readFileSettings(config)),
    place: (config) => own.place(parse(config)),
    uri: (config, key) => own.uri?.(parse(config), key) ?? null,
    open: (config, context, owner, traits = null) =>
      own.open(parse(config), readFileSettings(config), context, owner, traits),
  };
}
