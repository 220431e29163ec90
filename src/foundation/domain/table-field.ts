/** A column of a table format, in Iceberg's words and JSON. */
export interface TableField {
  readonly id: number;
  readonly name: string;
  readonly required: false;
  readonly type: TableType;
}

/** `int`, `decimal(10, 2)`, or a list of such. */
export type TableType = string | TableList;

export interface TableList {
  readonly type: 'list';
  readonly 'element-id': number;
  readonly element: string;
  readonly 'element-required': false;
}
