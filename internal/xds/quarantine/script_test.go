package quarantine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the decisions in testdata/*.txt")

// TestScripts plays the event sequences in testdata. The language:
//
//	> 1.5s join CONNECTION IDENTITY      an event, and its time since the start
//	> 1.5s leave CONNECTION
//	> 1.5s refuse CONNECTION NAME=VERSION
//	> 1.5s accept CONNECTION NAME=VERSION
//	> 1.5s offer NAME=VERSION            "NAME=" if the name is gone
//	> 1.5s tick
//	< …                                  a decision that follows; none if there is no such line
//
// The window is 1 s, and quarantines last 5 s, 10 s and then 20 s.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("the decisions differ (-want +got):\n%s", d)
			}
		})
	}
}

// start returns the time to which the times of scripts are relative.
func start() time.Time { return time.Unix(1_000_000, 0).UTC() }

func play(t *testing.T, text string) string {
	t.Helper()
	s := New(Options{MaxRetry: 20 * time.Second})
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "<"):
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&out, line)
			at, e := parse(t, strings.Fields(line)[1:])
			for _, d := range s.Step(at, e) {
				fmt.Fprintln(&out, "<", describe(d))
			}
		default:
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

func parse(t *testing.T, words []string) (time.Time, Event) {
	t.Helper()
	after, err := time.ParseDuration(words[0])
	if err != nil {
		t.Fatal(err)
	}
	candidate := func(i int) Candidate {
		name, version, _ := strings.Cut(words[i], "=")
		return Candidate{name, version}
	}
	at := start().Add(after)
	switch words[1] {
	case "join":
		return at, Joined{Member{words[2], words[3]}}
	case "leave":
		return at, Left{words[2]}
	case "refuse":
		return at, Refused{candidate(3), words[2]}
	case "accept":
		return at, Accepted{candidate(3), words[2]}
	case "offer":
		return at, Offered{candidate(2)}
	case "tick":
		return at, Tick{}
	}
	t.Fatalf("unknown event %q", words[1])
	return at, nil
}

func describe(d Decision) string {
	switch d := d.(type) {
	case Quarantine:
		return fmt.Sprintf("quarantine %s=%s, refused by %s (%d), until %v, attempt %d",
			d.Name, d.Version, strings.Join(d.Witnesses, " and "), d.Connections, d.Until.Sub(start()), d.Attempt)
	case Release:
		return fmt.Sprintf("release %s=%s: %s", d.Name, d.Version, d.Reason)
	}
	return fmt.Sprintf("%T", d)
}
