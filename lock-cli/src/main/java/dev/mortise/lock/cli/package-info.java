/** The command line of Mortise. Nothing in here is for other programs; {@code docs/command-line.md} is its manual. */
@NullMarked
package dev.mortise.lock.cli;

import org.jspecify.annotations.NullMarked;
