// Command scorecard runs the reliability checks and writes docs/SCORECARD.md. Makefile target:
// scorecard.
//
//	scorecard --size hour --checks 8,9 --peer /path/to/pilot-discovery
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/resilience/scorecard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

// run is one execution of the command.
type run struct {
	scorecard.Options
	numbers  []int
	document string // path
	list     bool
	peerOnly bool
}

func rootCommand() *cobra.Command {
	r := run{}
	c := &cobra.Command{
		Use: "scorecard", Short: "Run the reliability checks and write docs/SCORECARD.md", Args: cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			r.Environment, r.Progress = os.Environ(), c.OutOrStdout()
			return r.runChecks(c.Context())
		},
	}
	f := c.Flags()
	f.IntSliceVar(&r.numbers, "checks", nil, "numbers of the checks to run (default: all)")
	f.StringVar(&r.Size, "size", "short", "size: "+strings.Join(scorecard.Sizes(), ", "))
	f.StringVar(&r.Peer, "peer", "", "pilot-discovery of istio, to be measured by the same tests where they can")
	f.BoolVar(&r.peerOnly, "peer-only", false, "measure only the peer")
	f.DurationVar(&r.Timeout, "timeout", 0, "bound of the tests of one package (default: by size); check 31 does what it can in it")
	f.StringVar(&r.document, "document", "docs/SCORECARD.md", "file to update")
	f.StringVar(&r.Logs, "logs", "bin/scorecard", "directory for the output of the tests")
	f.StringVar(&r.Root, "root", ".", "root of the repository")
	f.BoolVar(&r.list, "render", false, "only write the document again, with the table as it is now")
	return c
}

func (r run) runChecks(ctx context.Context) error {
	if err := r.Validate(); err != nil {
		return err
	}
	all := scorecard.Checks()
	checks, unknown := scorecard.Select(all, r.numbers)
	if len(unknown) > 0 {
		return fmt.Errorf("there are no checks %v", unknown)
	}
	if r.list {
		return r.updateDocument(all, func(scorecard.Document) {})
	}
	stamp := scorecard.Stamp{Time: time.Now(), Commit: r.newestCommit(ctx), Size: r.Size, Load: loadAverage()}
	own, peer := r.Options, r.Options
	own.Peer = ""
	if !r.peerOnly {
		if err := scorecard.Run(ctx, own, scorecard.OwnTests(checks), func(o scorecard.Outcomes) error {
			return r.updateDocument(all, func(d scorecard.Document) { d.Update(checks, o, stamp) })
		}); err != nil {
			return err
		}
	}
	if r.Peer == "" {
		return nil
	}
	return scorecard.Run(ctx, peer, scorecard.PeerTests(checks), func(o scorecard.Outcomes) error {
		return r.updateDocument(all, func(d scorecard.Document) { d.UpdatePeer(checks, o, stamp) })
	})
}

// updateDocument reads the document, applies change and writes it. It reads again for each change so
// that rows which another run of the command has written meanwhile are kept.
func (r run) updateDocument(all []scorecard.Check, change func(scorecard.Document)) error {
	document, err := r.readDocument()
	if err != nil {
		return err
	}
	change(document)
	return r.writeDocument(document, all)
}

func (r run) readDocument() (scorecard.Document, error) {
	text, err := os.ReadFile(filepath.Join(r.Root, r.document))
	if os.IsNotExist(err) {
		return scorecard.Document{}, nil
	}
	if err != nil {
		return nil, err
	}
	return scorecard.Parse(string(text))
}

func (r run) writeDocument(d scorecard.Document, all []scorecard.Check) error {
	return os.WriteFile(filepath.Join(r.Root, r.document), []byte(d.Render(all)), 0o644)
}

// loadAverage returns the load average per CPU, because latencies on a busy machine say little.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	average, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("load %s on %d CPUs", average, runtime.NumCPU())
}

// newestCommit returns the newest commit that changed shipped files, abbreviated, with a plus sign
// if shipped files have uncommitted changes. Commits of tests and documents do not count: they
// change no result.
func (r run) newestCommit(ctx context.Context) string {
	shipped := []string{"--", "cmd", "internal", "manifests", "go.mod", ":!*_test.go"}
	git := func(args ...string) string {
		c := exec.CommandContext(ctx, "git", append(args, shipped...)...)
		c.Dir = r.Root
		out, err := c.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("log", "-1", "--format=%h")
	if commit == "" {
		return "unknown commit"
	}
	if git("status", "--porcelain") != "" {
		commit += "+"
	}
	return commit
}
