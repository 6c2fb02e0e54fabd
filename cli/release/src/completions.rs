//! Shell completions.
//!
//! clap_complete's scripts complete the options of `aotc`'s commands only in Bash. zsh takes the
//! command for the second argument. fish finds no command after an option whose value is still to
//! come. So for these two shells, each command gets a script of its own. In zsh the first argument
//! selects it, in fish any earlier argument does.

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;

/// A shell's completions of a program.
pub(crate) fn script(shell: Shell, program: &Command) -> Result<String> {
    let whole = generated(shell, program.clone(), program.get_name())?;
    match shell {
        Shell::Zsh if program.has_subcommands() => zsh(program, &whole),
        Shell::Fish if program.has_subcommands() => fish(program, &whole),
        _ => Ok(whole),
    }
}

/// The script of clap_complete for a command that is called by this name.
fn generated(shell: Shell, mut command: Command, name: &str) -> Result<String> {
    let mut script = vec![];
    clap_complete::generate(shell, &mut command, name, &mut script);
    Ok(String::from_utf8(script)?)
}

/// A command with the options of another one, and without its commands.
fn alone(command: &Command) -> Command {
    let alone = Command::new("alone")
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned());
    match command.get_version() {
        Some(_) => alone.version(env!("CARGO_PKG_VERSION")),
        None => alone,
    }
}

/// The script for zsh: a function for each command, one for the program without a command, and one
/// that calls them.
fn zsh(program: &Command, whole: &str) -> Result<String> {
    let name = program.get_name();
    let list = between(whole, &format!("\n_{name}_commands() {{\n"), "\n}\n")?;
    let names: Vec<_> = program.get_subcommands().map(Command::get_name).collect();
    let mut functions = String::new();
    let inner = program
        .get_subcommands()
        .map(|command| (command, command.get_name()));
    for (command, called) in std::iter::once((program, "main")).chain(inner) {
        let called = format!("{name}-{called}");
        let script = generated(Shell::Zsh, alone(command), &called)?;
        let footer = format!("\nif [ \"$funcstack[1]\" = \"_{called}\" ]");
        functions.push_str(between(&script, "autoload -U is-at-least\n", &footer)?);
    }
    let names = names.join("|");
    Ok(format!(
        r#"#compdef {name}

autoload -U is-at-least
{functions}
_{name}_commands() {{
{list}
}}

_{name}() {{
    local ret=1
    if (( CURRENT == 2 )); then
        _{name}_commands && ret=0
    else
        case $words[2] in
        ({names})
            local called=_{name}-$words[2]
            shift words
            (( CURRENT -= 1 ))
            $called
            return
            ;;
        esac
    fi
    _{name}-main && ret=0
    return ret
}}

if [ "$funcstack[1]" = "_{name}" ]; then
    _{name} "$@"
else
    compdef _{name} {name}
fi
"#
    ))
}

/// The script for fish: the lines of each command with the condition that it is given.
fn fish(program: &Command, whole: &str) -> Result<String> {
    let name = program.get_name();
    let names: Vec<_> = program.get_subcommands().map(Command::get_name).collect();
    let mut script = String::new();
    let mut add = |command: &Command, condition: String| -> Result<()> {
        let old = format!("complete -c {name}");
        let new = format!("complete -c {name} -n \"{condition}\"");
        for line in generated(Shell::Fish, alone(command), name)?.lines() {
            match line.strip_prefix(&old) {
                Some(rest) => script.push_str(&format!("{new}{rest}\n")),
                None => script.push_str(&format!("{line}\n")),
            }
        }
        Ok(())
    };
    let all = names.join(" ");
    add(program, format!("not __fish_seen_subcommand_from {all}"))?;
    for command in program.get_subcommands() {
        let called = command.get_name();
        add(command, format!("__fish_seen_subcommand_from {called}"))?;
    }
    // The commands, beside the files.
    let start = format!("complete -c {name} -n \"__fish_{name}_needs_command\" -a ");
    let listed: Vec<_> = whole
        .lines()
        .filter_map(|line| line.strip_prefix(&start))
        .collect();
    anyhow::ensure!(
        listed.len() == names.len(),
        "clap_complete's script for fish has {} commands, {name} has {}; compare completions.rs \
         with it",
        listed.len(),
        names.len()
    );
    for rest in listed {
        let line = format!("complete -c {name} -n \"__fish_is_first_arg\" -a {rest}\n");
        script.push_str(&line);
    }
    Ok(script)
}

/// The text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Result<&'a str> {
    let found = text
        .split_once(start)
        .and_then(|(_, rest)| rest.split_once(end));
    let (found, _) = found.with_context(|| {
        format!(
            "clap_complete's script has no {start:?} before {end:?}; compare completions.rs with it"
        )
    })?;
    Ok(found)
}
