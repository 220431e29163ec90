/** Who asks: the key of a request, or the command line (null). */
export interface Actor {
  readonly organizationId: string;
  readonly keyId: string | null;
}
