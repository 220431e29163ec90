import { type TSchema, Type } from 'typebox';
import { type Named, Nullable, Ref } from '../schemas/shapes.ts';

export const PageQuery = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of results per page; 100, at most 1000. A page also ends before 1 MiB.',
    }),
  ),
  offset: Type.Optional(Type.Integer({ minimum: 0, description: 'Index of the first result.' })),
};

export const CursorQuery = {
  cursor: Type.Optional(Type.String({ description: 'The pagination cursor.' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of results per page; 100, at most 1000. A page also ends before 1 MiB.',
    }),
  ),
};

const links = {
  next: Nullable(Type.String({ format: 'uri', description: 'The next page; null on the last.' })),
  previous: Nullable(
    Type.String({ format: 'uri', description: 'The page before; null on the first.' }),
  ),
};

export function OffsetPageOf<T extends TSchema>(item: Named<T>) {
  return Type.Object({ count: Type.Integer(), ...links, results: Type.Array(Ref(item)) });
}

export function CursorPageOf<T extends TSchema>(item: Named<T>) {
  return Type.Object({ ...links, results: Type.Array(Ref(item)) });
}
