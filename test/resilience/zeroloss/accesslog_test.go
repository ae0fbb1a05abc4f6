package zeroloss

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
)

// flushTime is slightly longer than Envoy may buffer lines of its access logs
// (--file-flush-interval-msec, 10 s).
const flushTime = 12 * time.Second

// sentAgain is the number of attempts of a request that was retried.
var sentAgain = regexp.MustCompile(` attempts=([2-9]|\d\d)`)

// clientAddress finds the source address of the connection in the error of a lost TCP request.
var clientAddress = regexp.MustCompile(`connection from (\S+):`)

// evidence collects the access log lines of lost requests from sidecars.
type evidence struct {
	paths []string
	lines map[string][]string // by the id of the request
	again []string            // of requests that a sidecar has sent more than once
	count int                 // of all lines
}

func newEvidence(w *world) *evidence {
	e := &evidence{lines: map[string][]string{}}
	for _, workload := range w.Workloads {
		e.paths = append(e.paths, filepath.Join(workload.Node.Dir(), "proxy", "access.log"))
	}
	return e
}

// collect searches the logs for failures, after waiting until all their lines can have been
// written, and truncates the logs, because a thousand requests a second fill a disk.
func (e *evidence) collect(ctx context.Context, failures []load.Failure) error {
	keys := map[string]string{} // what names a request in a log: its id
	for _, f := range failures {
		if _, done := e.lines[f.ID]; done {
			continue
		}
		e.lines[f.ID] = nil
		keys["id="+f.ID+" "] = f.ID
		if m := clientAddress.FindStringSubmatch(f.Err.Error()); m != nil {
			keys["id=- from="+m[1]+" "] = f.ID
		}
	}
	if len(keys) > 0 {
		select {
		case <-time.After(flushTime):
		case <-ctx.Done():
		}
	}
	for _, path := range e.paths {
		if err := e.readLog(path, keys); err != nil {
			return err
		}
	}
	return nil
}

func (e *evidence) readLog(path string, keys map[string]string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	node := filepath.Base(filepath.Dir(filepath.Dir(path)))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		e.count++
		if sentAgain.Match(lines.Bytes()) {
			e.again = append(e.again, node+": "+lines.Text())
		}
		for key, id := range keys {
			if strings.Contains(lines.Text(), key) {
				e.lines[id] = append(e.lines[id], fmt.Sprintf("%s: %s", node, lines.Text()))
			}
		}
	}
	return f.Truncate(0) // Envoy appends
}
