// Package console is what the commands of all programs have in common: the streams that they read
// and print to, the forms of their output, their exit codes and the line that an error is.
//
// Every command prints its result on standard output and ends with 0. An error is a line on
// standard error that starts with the name of the program, one for each problem of manifests, and
// the command ends with 1. A command whose answer is no ends with 2.
package console
