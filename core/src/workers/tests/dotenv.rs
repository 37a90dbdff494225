//! `.dev.vars`.

use expect_test::expect;

use super::super::dot_vars;
use super::said;

#[test]
fn values_are_read_as_the_dotenv_packages_read_them() {
    let text = "\u{feff}# secrets\n\nA=1\n  B = two words \nexport C=3\r\nD=\"x\\ny # no remark\" # a remark\nE='a\\nb'\nF=`it's \"so\"`\nG=x # remark\n\
                H=\nI=\"over\nlines\"\nJ=a=b#c\nA=again\nK='open\nL=\"say \\\"hi\\\"\"\nM.x-y=1\nN: yes\nO=a: b";
    expect![[r#"
        {
            "A": "again",
            "B": "two words",
            "C": "3",
            "D": "x\ny # no remark",
            "E": "a\\nb",
            "F": "it's \"so\"",
            "G": "x",
            "H": "",
            "I": "over\nlines",
            "J": "a=b",
            "K": "'open",
            "L": "say \\\"hi\\\"",
            "M.x-y": "1",
            "N": "yes",
            "O": "a: b",
        }"#]]
    .assert_eq(&format!("{:#?}", dot_vars(text).expect("it is right")));
}

#[test]
fn a_line_that_gives_no_name_a_value_is_refused_in_its_place() {
    for (text, expected) in [
        (
            "A=1\nnot a line\nB=2",
            expect![[r#"
                file @ not a line
                  `not a line` is no variable
                  help: write `NAME=value`, `NAME="value with\nlines"` or `# a remark`
            "#]],
        ),
        (
            "A B=1",
            expect![[r#"
                file @ A B=1
                  `A B` is no variable
                  help: write `NAME=value`, `NAME="value with\nlines"` or `# a remark`
            "#]],
        ),
        (
            "=1",
            expect![[r#"
                file @ =1
                  `` is no variable
                  help: write `NAME=value`, `NAME="value with\nlines"` or `# a remark`
            "#]],
        ),
        (
            "A=\"open\nB=2\n",
            expect![[r#"
                file @ A="open
                  the quotes of `A` do not end
                  help: write `NAME=value`, `NAME="value with\nlines"` or `# a remark`
            "#]],
        ),
    ] {
        expected.assert_eq(&said(text, &[dot_vars(text).expect_err("refused")]));
    }
}
