// @ts-expect-error A script in JavaScript.
import { readDocument } from '../../../scripts/openapi-document.mjs';

interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

interface Content {
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
}

export interface Operation {
  readonly tags?: readonly string[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

/** The parts of an OpenAPI document that the budget counts. */
export interface DocumentText {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** The document of the API as its sources are, without a build. */
export async function readDocumentOfSource(): Promise<DocumentText> {
  const folder = new URL('../../../src/', import.meta.url);
  return readDocument((module: string) => import(new URL(`${module}.ts`, folder).pathname));
}
