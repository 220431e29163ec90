import { Type } from 'typebox';
import type { PropertyFilter as Filter } from '../../../foundation/domain/property-filter.ts';

const Value = { type: ['string', 'number', 'boolean', 'null'], maxLength: 1_000 };

const shape = Type.Object({
  key: Type.String({ minLength: 1, maxLength: 400, description: 'The name of the property.' }),
  operator: Type.Optional(
    Type.String({
      maxLength: 100,
      description:
        'exact (default), is_not, icontains, not_icontains, is_set, is_not_set, gt, gte, lt, lte, in or not_in. Numbers are compared with JSON numbers only.',
    }),
  ),
  type: Type.Optional(
    Type.String({
      maxLength: 100,
      description: 'event (default) or person: whose property it is.',
    }),
  ),
  value: Type.Optional(
    Type.Unsafe<Filter['value']>({
      type: [...Value.type, 'array'],
      maxLength: Value.maxLength,
      items: Value,
      maxItems: 100,
      description: 'One value, or a list. One of them must match.',
    }),
  ),
  label: Type.Optional(Type.String({ maxLength: 400, description: 'A text for people.' })),
});

/** A condition on a property, as PostHog's clients write it. */
export const PropertyFilter = Type.Unsafe<Filter>(shape);
