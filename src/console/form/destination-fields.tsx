import { Choice } from './choice.tsx';
import { ConfigField } from './config-field.tsx';
import { configAttr, destinationForm, withType } from './draft.ts';
import { type Field, isOptional } from './fields.ts';
import type { PartProps } from './part-props.ts';

/** The destination's fields, from its own schema. */
export function DestinationFields(props: PartProps) {
  const { description, draft, batchExport, errors, onChange } = props;
  const form = destinationForm(description, draft.type);
  const fields = form?.fields ?? [];
  const plain = fields.filter((field) => !isOptional(field));
  const more = fields.filter(isOptional);
  const config = batchExport?.destination.config ?? {};
  // Opened if one of them has a value or an error.
  const opened = more.some(
    ({ name, default: preset }) =>
      errors.has(configAttr(name)) || (config[name] ?? preset ?? null) !== (preset ?? null),
  );
  return (
    <section className="card panel">
      <h2>Destination</h2>
      <Choice
        attr="destination-type"
        label="Type"
        value={draft.type}
        choices={description.destinations.map(({ type }) => [type, type])}
        disabled={batchExport !== null}
        onChange={(type) => onChange(withType(description, draft, type))}
        help={`${form?.description ?? ''}${batchExport ? ' It cannot change. For another type, create another export.' : ''}`}
      />
      <div className="grid">
        {plain.map((field) => (
          <DestinationField key={field.name} field={field} {...props} />
        ))}
      </div>
      {more.length > 0 && (
        <details open={opened || undefined}>
          <summary>More settings</summary>
          <div className="grid">
            {more.map((field) => (
              <DestinationField key={field.name} field={field} {...props} />
            ))}
          </div>
        </details>
      )}
    </section>
  );
}

function DestinationField({
  field,
  draft,
  batchExport,
  errors,
  onChange,
}: PartProps & { field: Field }) {
  const attr = configAttr(field.name);
  return (
    <ConfigField
      field={field}
      attr={attr}
      draft={draft}
      error={errors.get(attr)}
      hasSecret={batchExport !== null}
      onChange={onChange}
    />
  );
}
