//! Over the boundary: what a D1 binding is given, and what is read from its answers.

use jadpo_core::store::{Row, Rows, Statement, StoreError, Value};
use wasm_bindgen::prelude::*;
use wasm_bindgen_test::wasm_bindgen_test;
use worker::worker_sys::D1Database;

use super::batch;

#[wasm_bindgen(inline_js = r#"
/** A D1 binding that notes what it is given and answers with what `answer`, an expression, gives. */
export function databaseOf(answer) {
  const given = [];
  const prepare = (sql) => ({ sql, params: null, bind(...params) { return { ...this, params }; } });
  const shown = (value) => value instanceof Uint8Array ? [...value] : value;
  return {
    given,
    prepare,
    batch(statements) {
      given.push(...statements.map(({ sql, params }) => [sql, params?.map(shown) ?? null]));
      return (0, eval)(`(() => { ${answer} })()`);
    },
  };
}

export function givenTo(database) { return JSON.stringify(database.given); }
"#)]
extern "C" {
    #[wasm_bindgen(js_name = databaseOf)]
    fn database_of(answer: &str) -> D1Database;
    #[wasm_bindgen(js_name = givenTo)]
    fn given_to(database: &D1Database) -> String;
}

fn select() -> Vec<Statement> {
    vec![Statement::new("SELECT ?1", vec![Value::Integer(1)])]
}

async fn failed(answer: &str) -> StoreError {
    batch(&database_of(answer), &select()).await.unwrap_err()
}

#[wasm_bindgen_test]
async fn values_are_bound_as_d1_takes_them() {
    let database = database_of("return Promise.resolve([{ results: [], meta: {} }, { results: [], meta: {} }]);");
    let values = vec![
        Value::Null,
        Value::Integer(9_007_199_254_740_991),
        Value::Integer(-1),
        Value::Real(0.5),
        Value::Text("a\0\u{feff}é".to_owned()),
        Value::Blob(vec![0, 128, 255]),
        Value::Blob(Vec::new()),
    ];
    let statements = [Statement::new("INSERT", values), Statement::new("SELECT 1", Vec::new())];
    batch(&database, &statements).await.unwrap();
    let given = r#"[["INSERT",[null,9007199254740991,-1,0.5,"a\u0000é",[0,128,255],[]]],["SELECT 1",null]]"#;
    assert_eq!(given_to(&database).replace('\u{feff}', ""), given);
}

#[wasm_bindgen_test]
async fn rows_are_read_by_position_with_what_they_cost() {
    let answer = "return Promise.resolve([{
        results: [{ z: 1, a: 'x', b: [0, 128, 255], c: null, d: 0.5, e: [], f: new Uint8Array([7]).buffer }],
        meta: { changes: 2, rows_written: 3, duration: 0.1 },
    }]);";
    let rows = batch(&database_of(answer), &select()).await.unwrap();
    let row = Row(vec![
        Value::Integer(1),
        Value::Text("x".to_owned()),
        Value::Blob(vec![0, 128, 255]),
        Value::Null,
        Value::Real(0.5),
        Value::Blob(Vec::new()),
        Value::Blob(vec![7]),
    ]);
    assert_eq!(rows, [Rows { rows: vec![row], changes: 2, rows_written: 3 }]);
}

#[wasm_bindgen_test]
async fn no_statement_is_no_round_trip() {
    assert_eq!(batch(&database_of("throw new Error('asked');"), &[]).await, Ok(Vec::new()));
}

#[wasm_bindgen_test]
async fn d1_s_errors_are_sorted_by_what_follows_from_them() {
    let error =
        failed("return Promise.reject(new Error('D1_ERROR: no such table: jadpo_schema: SQLITE_ERROR'));").await;
    assert!(matches!(error, StoreError::NotCurrent(_)), "{error:?}");
    let error =
        failed("return Promise.reject(new Error('D1_ERROR: UNIQUE constraint failed: x: SQLITE_CONSTRAINT'));").await;
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    let error = failed("return Promise.reject(new Error('D1_ERROR: Network connection lost.'));").await;
    assert_eq!(error, StoreError::Unavailable("D1_ERROR: Network connection lost.".to_owned()));
}

#[wasm_bindgen_test]
async fn whatever_else_a_binding_does_is_unavailable_and_no_trap() {
    for answer in [
        "throw new TypeError('at once');",
        "return Promise.reject(null);",
        "return Promise.reject(undefined);",
        "return Promise.resolve(7);",
        "return Promise.resolve([]);",
        "return Promise.resolve([{ results: [], meta: {} }, { results: [], meta: {} }]);",
    ] {
        let error = failed(answer).await;
        assert!(matches!(error, StoreError::Unavailable(_)), "{answer}: {error:?}");
    }
}
