/** Tests with real processes: guardians, commands, and {@code mortise} itself as a program. */
package dev.mortise.lock.cli;
