import { type TOptional, type TSchema, type TUnsafe, Type } from 'typebox';
import {
  type ExportSettingFields,
  settingList,
} from '../../../foundation/domain/export-settings.ts';
import { Nullable } from '../schemas/shapes.ts';

type Fields = ExportSettingFields;

/** The settings as requests give them. The page asks for what has `x-setting`. */
export const settingSchemas = schemasOf((setting) => {
  const { type, minimum, maximum, choices, title, default: preset, isLocal } = setting;
  const more = {
    'x-setting': isLocal ? 'local' : 'any',
    ...(preset !== null && { 'x-default': preset }),
  };
  const schema = { ...more, title, description: setting.description };
  return Type.Optional(
    orNull(
      setting,
      type === 'integer'
        ? Type.Integer({
            ...schema,
            ...(minimum !== undefined && { minimum }),
            ...(maximum !== undefined && { maximum }),
          })
        : choices
          ? Type.Enum([...choices], schema)
          : Type.String({
              ...schema,
              'x-input': 'time',
              pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
            }),
    ),
  );
}) as { [Field in keyof Fields]: TOptional<TUnsafe<Fields[Field]>> };

/** The settings as answers show them. */
export const shownSettings = schemasOf((setting) => {
  const { type, choices, description } = setting;
  return orNull(
    setting,
    type === 'integer'
      ? Type.Integer({ description })
      : choices
        ? Type.Enum([...choices], { description })
        : Type.String({ description }),
  );
}) as { [Field in keyof Fields]: TUnsafe<Fields[Field]> };

function schemasOf(schemaOf: (setting: (typeof settingList)[number]) => TSchema): object {
  return Object.fromEntries(settingList.map((setting) => [setting.field, schemaOf(setting)]));
}

function orNull(
  { default: preset, mayBeNull }: (typeof settingList)[number],
  schema: TSchema,
): TSchema {
  return preset === null || mayBeNull === true ? Nullable(schema) : schema;
}
