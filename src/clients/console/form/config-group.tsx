import { ConfigField } from './config-field.tsx';
import { configAttr, destinationForm } from './draft.ts';
import type { Field } from './fields.ts';
import { applies, choicesOf, type Group, groupOf, withFormat } from './file-settings.ts';
import type { PartProps } from './part-props.ts';

/** The settings of a part of the form that apply with the other values. */
export function fieldsOfGroup(
  { description, draft, batchExport }: PartProps,
  group: Group,
): readonly Field[] {
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const formats = description.installation?.file_formats ?? [];
  // Stored ones stay if their fields are empty.
  const needsSecrets = description.installation?.own_credentials === false && batchExport === null;
  return fields
    .filter((field) => groupOf(field) === group && applies(field, draft.values))
    .map((field) => ({
      ...field,
      required: field.required || (needsSecrets && field.kind === 'secret'),
      choices: choicesOf(field, draft.values, formats),
    }));
}

/** Whether one of the settings has a value of its own or an error, so that it must be seen. */
export function needsToBeSeen({ draft, errors }: PartProps, fields: readonly Field[]): boolean {
  return fields.some(({ name, default: preset }) => {
    const value = draft.values[name] ?? '';
    return errors.has(configAttr(name)) || String(value) !== String(preset ?? '');
  });
}

interface Props extends PartProps {
  readonly group: Group;
  /** Only these; default: all of the group. */
  readonly only?: (field: Field) => boolean;
}

/** Inputs of a part of the config. */
export function ConfigGroup({ group, only = () => true, ...props }: Props) {
  const { description, draft, batchExport, errors, onChange } = props;
  const formats = description.installation?.file_formats ?? [];
  return (
    <div className="grid">
      {fieldsOfGroup(props, group)
        .filter(only)
        .map((field) => (
          <ConfigField
            key={field.name}
            field={field}
            attr={configAttr(field.name)}
            draft={draft}
            error={errors.get(configAttr(field.name))}
            hasSecret={batchExport !== null}
            onChange={onChange}
            {...(field.name === 'file_format' && {
              withValue: (format) => withFormat(draft.values, String(format), formats),
            })}
          />
        ))}
    </div>
  );
}
