// Package console has what the commands of all programs share: the streams that they read from and
// print to, the forms of their output, their exit codes and the format of errors.
//
// Every command prints its result on standard output and exits with code 0. An error is a line on
// standard error that starts with the name of the program, and the command exits with code 1.
// Problems of manifests are one line each. A command whose answer is no exits with code 2.
package console
