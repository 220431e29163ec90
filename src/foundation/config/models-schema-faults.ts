import { ModelsFile } from './models-schema.ts';

export interface SchemaFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: {
    readonly requiredProperties?: readonly string[];
    readonly additionalProperties?: readonly string[];
    readonly type?: string | readonly string[];
  };
}

interface Described {
  readonly path: readonly (string | number)[];
  readonly problem: string;
}

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

/** Turns a fault of the schema into messages for the author of the file. */
export function describeSchemaFault(fault: SchemaFault, value: unknown): readonly Described[] {
  const steps = fault.instancePath.split('/').slice(1);
  const path = steps.map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  const about = (at: Described['path']) => schemaAt(at)?.description ?? '';
  const type = String(fault.params.type);
  switch (fault.keyword) {
    case 'required':
      return (fault.params.requiredProperties ?? []).map((name) => ({
        path: [...path, name],
        problem: `is missing. ${about([...path, name])}`,
      }));
    case 'additionalProperties':
      return (fault.params.additionalProperties ?? []).map((name) => ({
        path: [...path, name],
        problem: `is unknown. Use one of: ${Object.keys(schemaAt(path)?.properties ?? {}).join(', ')}.`,
      }));
    // The library reports an unknown property twice; the second time, its schema is `false`.
    case 'boolean':
      return [];
    case 'type':
      return [{ path, problem: `must be ${typeNames[type] ?? type}. ${about(path)}` }];
    case 'minItems':
      return [{ path, problem: `is empty. ${about(path)}` }];
    case 'uniqueItems':
      return [{ path, problem: `has an item twice. ${about(path)}` }];
    default:
      return [{ path, problem: `${show(valueAt(value, path))} is not valid. ${about(path)}` }];
  }
}

function schemaAt(path: Described['path']): Schema | undefined {
  let schema: Schema | undefined = ModelsFile as unknown as Schema;
  for (const step of path) {
    schema = typeof step === 'number' ? schema?.items : schema?.properties?.[step];
  }
  return schema;
}

function valueAt(value: unknown, path: Described['path']): unknown {
  let inner = value;
  for (const step of path) inner = (inner as Record<string | number, unknown> | null)?.[step];
  return inner;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

const typeNames: Readonly<Record<string, string>> = {
  array: 'a list',
  integer: 'a whole number',
  object: 'a mapping',
  string: 'text',
};
