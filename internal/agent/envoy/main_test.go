package envoy

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// roleVar selects which small program the test binary runs as.
const roleVar = "MESHPILOT_TEST_ROLE"

func TestMain(m *testing.M) {
	role, argument := os.Getenv(roleVar), ""
	if len(os.Args) > 1 {
		argument = os.Args[1]
	}
	switch role {
	case "":
		goleak.VerifyTestMain(m)
	case "exit":
		code, _ := strconv.Atoi(argument)
		os.Exit(code)
	case "print":
		fmt.Print("out:", argument)
		fmt.Fprint(os.Stderr, "err:", os.Getenv("GREETING"))
	case "polite": // ends on SIGTERM, as Envoy does
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "parent": // starts a stubborn child, prints its PID, and waits
		os.Exit(parent())
	}
}

func parent() int {
	out, w, err := os.Pipe()
	if err != nil {
		return 1
	}
	p, err := Start(Command{Path: os.Args[0], Env: []string{roleVar + "=stubborn"}, Stdout: w})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := out.Read(make([]byte, 64)); err != nil {
		return 1
	}
	fmt.Println(p.PID())
	select {}
}
