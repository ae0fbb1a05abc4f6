package gatewayenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs until its test ends, at the latest.
type process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
}

// runCommand starts a program that ends with the test, with its log in a folder. The log is shown if the test fails.
func runCommand(t testing.TB, name string, c *exec.Cmd, logs string, env []string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, cmd: c, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = c.Wait() // how it ended is in its log
	}()
	t.Cleanup(func() {
		defer log.Close()
		p.endProcess()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

func (p *process) endProcess() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(settleTime):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("%s did not end", p.name)
	}
}
