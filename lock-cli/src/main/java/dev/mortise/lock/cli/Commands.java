package dev.mortise.lock.cli;

import java.util.List;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;

/**
 * What the command line can say. Built by hand: to find annotations by reflection takes longer than all the rest of the
 * parsing. All values are texts here, because picocli's messages about other types show them, secrets too.
 */
final class Commands {
    private Commands() {}

    static CommandSpec mortise() {
        return CommandSpec.create()
                .name("mortise")
                .addOption(help())
                .addOption(OptionSpec.builder("-V", "--version")
                        .versionHelp(true)
                        .description("Print the version.")
                        .build())
                .addSubcommand("run", run())
                .addSubcommand("status", status())
                .addSubcommand("stores", stores())
                .addSubcommand("tck", tck())
                .addSubcommand("init", init())
                .usageMessage(usage("Runs commands under distributed locks. docs/command-line.md is the manual."));
    }

    private static CommandSpec run() {
        return CommandSpec.create()
                .name("run")
                .addPositional(name())
                .addOption(store())
                .addOption(option())
                .addOption(value(
                        "DURATION",
                        "How long to wait for the lock; 0 tries once. For ever unless given.",
                        "-w",
                        "--wait"))
                .addOption(value(
                        "DURATION", "What the store grants at a time; renewed at a third. Default 30s.", "--lease"))
                .addOption(
                        value("N", "Exit code if the lock was not acquired. Default 1.", "-E", "--conflict-exit-code"))
                .addOption(OptionSpec.builder("--foreground")
                        .description(
                                "For commands that need the terminal. Only the command itself is ended with the lock, not"
                                        + " what it has started.")
                        .build())
                .addOption(help())
                .usageMessage(usage("Runs COMMAND while holding the lock NAME.")
                        .customSynopsis("mortise run NAME [OPTIONS] -- COMMAND [ARGUMENT...]")
                        .footer(
                                "",
                                "COMMAND finds the fencing token in MORTISE_TOKEN. Exit code: COMMAND's own; 1 not acquired;"
                                        + " 64 usage; 69 store; 70 internal; 75 lock lost; 126, 127 not executable, not found;"
                                        + " 128+n signal n."));
    }

    private static CommandSpec status() {
        return CommandSpec.create()
                .name("status")
                .addPositional(name())
                .addOption(store())
                .addOption(option())
                .addOption(help())
                .usageMessage(usage("Tells who holds the lock NAME: for people, not for decisions."));
    }

    private static CommandSpec stores() {
        return CommandSpec.create()
                .name("stores")
                .addOption(help())
                .usageMessage(usage("Lists the kinds of store found, with what they promise and their options."));
    }

    private static CommandSpec tck() {
        return CommandSpec.create()
                .name("tck")
                .addPositional(PositionalParamSpec.builder()
                        .index("0")
                        .arity("0..1")
                        .type(String.class)
                        .paramLabel("URI")
                        .description("The store. Default MORTISE_STORE.")
                        .build())
                .addOption(option())
                .addOption(value("DIR", "Where report.html and report.json go. Default mortise-tck.", "--report"))
                .addOption(value("TEXT", "What all names begin with. Default tck- and something random.", "--prefix"))
                .addOption(value("N", "The first seed of what is generated. Default 1.", "--seed"))
                .addOption(value("N", "How many scenarios are generated. Default 120.", "--scenarios"))
                .addOption(value("N", "Goes on with new scenarios for so many minutes. Default 0.", "--minutes"))
                .addOption(OptionSpec.builder("--no-processes")
                        .description("Start no clients in processes of their own.")
                        .build())
                .addOption(OptionSpec.builder("-q", "--quiet")
                        .description("Do not tell how far it is.")
                        .build())
                .addOption(help())
                .usageMessage(
                        usage(
                                        "Tests whether a store in use keeps the rules of docs/spec.md. Only clients' own calls are"
                                                + " made, under names of its own, which are released at the end.")
                                .footer(
                                        "",
                                        "Exit code: 0 all tested rules hold; 1 one is broken; 64 usage; 69 store; 128+n signal n."));
    }

    private static CommandSpec init() {
        return CommandSpec.create()
                .name("init")
                .addPositional(PositionalParamSpec.builder()
                        .index("0")
                        .arity("0..1")
                        .type(String.class)
                        .paramLabel("URI")
                        .description("The servers: redlock://HOST:PORT,HOST:PORT,HOST:PORT")
                        .build())
                .addOption(option())
                .addOption(help())
                .usageMessage(
                        usage("For operators of Redlock: lets servers vote at once that are new or have lost their"
                                        + " data, instead of after the longest lease.")
                                .footer(
                                        "",
                                        "Only when no lock is held that these servers have forgotten: it could get a second holder,"
                                                + " whose token is larger."));
    }

    private static CommandLine.Model.UsageMessageSpec usage(String description) {
        return new CommandLine.Model.UsageMessageSpec().description(description);
    }

    private static OptionSpec help() {
        return OptionSpec.builder("-h", "--help")
                .usageHelp(true)
                .description("Print this help.")
                .build();
    }

    private static PositionalParamSpec name() {
        return PositionalParamSpec.builder()
                .index("0")
                .arity("0..1")
                .type(String.class)
                .paramLabel("NAME")
                .description("The lock: any text, told apart by case.")
                .build();
    }

    private static OptionSpec store() {
        return value("URI", "Where locks are kept. Default MORTISE_STORE, else a file of your own.", "-s", "--store");
    }

    private static OptionSpec option() {
        return OptionSpec.builder("-o", "--option")
                .type(List.class)
                .auxiliaryTypes(String.class)
                .arity("1")
                .paramLabel("NAME=VALUE")
                .description("An option of the store, any number of times.")
                .build();
    }

    private static OptionSpec value(String label, String description, String... names) {
        return OptionSpec.builder(names)
                .type(String.class)
                .arity("1")
                .paramLabel(label)
                .description(description)
                .build();
    }

    /** In our words, and without values: the one in the wrong place may be a password. */
    static String explain(CommandLine.ParameterException e) {
        String see = "; see mortise "
                + (e.getCommandLine().getParent() == null
                        ? ""
                        : e.getCommandLine().getCommandName() + " ") + "--help";
        if (e instanceof CommandLine.UnmatchedArgumentException unmatched) {
            String first = unmatched.getUnmatched().get(0);
            if (first.startsWith("-") && first.length() > 1) {
                int equals = first.indexOf('=');
                return "unknown option "
                        + Text.quoted(
                                equals < 0
                                        ? first.startsWith("--") ? first : first.substring(0, 2)
                                        : first.substring(0, equals))
                        + see;
            }
            return e.getCommandLine().getParent() == null
                    ? "there is no such command: run, status, stores, tck and init are" + see
                    : "there is one argument too many"
                            + (e.getCommandLine().getCommandName().equals("run")
                                    ? "; a command to run goes behind two dashes: -- COMMAND"
                                    : "")
                            + see;
        }
        if (e instanceof CommandLine.OverwrittenOptionException overwritten
                && overwritten.getOverwritten() instanceof OptionSpec option) {
            return "the option " + option.longestName() + " is given twice" + see;
        }
        if (e instanceof CommandLine.MissingParameterException missing
                && !missing.getMissing().isEmpty()
                && missing.getMissing().get(0) instanceof OptionSpec option) {
            return "the option " + option.longestName() + " needs a value" + see;
        }
        return "the arguments cannot be read" + see;
    }
}
