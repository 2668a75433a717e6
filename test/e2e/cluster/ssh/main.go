// Command ssh replaces ssh, and commands that only the tests have, in pages of commands. It sends
// its name, its arguments and its input to the test, which listens on the socket PADDOCK_E2E_DESK,
// and prints the answer. It ignores -o with its value, as paddock collect gives it to ssh. With -n as
// its first argument after that, it reads no input.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

func main() {
	ended, err := ask()
	if err == nil {
		_, err = os.Stdout.WriteString(ended.Stdout)
	}
	if err == nil {
		_, err = os.Stderr.WriteString(ended.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(255)
	}
	os.Exit(ended.Code)
}

func ask() (ended wire.Ended, err error) {
	words := os.Args[1:]
	for len(words) > 1 && words[0] == "-o" {
		words = words[2:]
	}
	question := wire.Exec{Argv: append([]string{filepath.Base(os.Args[0])}, words...)}
	if len(words) == 0 || words[0] != "-n" {
		if question.Stdin, err = io.ReadAll(os.Stdin); err != nil {
			return ended, err
		}
	}
	conn, err := net.Dial("unix", os.Getenv("PADDOCK_E2E_DESK"))
	if err != nil {
		return ended, err
	}
	if err := json.NewEncoder(conn).Encode(question); err != nil {
		return ended, errors.Join(err, conn.Close())
	}
	return ended, errors.Join(json.NewDecoder(conn).Decode(&ended), conn.Close())
}
