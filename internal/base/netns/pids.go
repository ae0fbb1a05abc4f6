package netns

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killWait bounds the wait for processes that were sent SIGKILL.
const killWait = 5 * time.Second

// killAll sends SIGKILL to every process of a network namespace, again and again until none is
// left. It returns an error if any is left after killWait, or if they cannot be listed.
func killAll(inode uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	for {
		pids, err := processesIn(inode)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
		}
		if !sleepFor(ctx, 2*time.Millisecond) {
			return fmt.Errorf("processes %v outlived SIGKILL", pids)
		}
	}
}

// processesIn lists the processes whose main thread is in a network namespace, by their PIDs in
// this PID namespace. Processes that cannot be read are skipped.
func processesIn(inode uint64) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		stat, err := os.Stat(filepath.Join("/proc", e.Name(), "ns/net"))
		if err != nil || inodeOf(stat) != inode {
			continue // it ended, is a zombie, or is not ours
		}
		if pid, ok := innermostPID(readFile(filepath.Join("/proc", e.Name(), "status"))); ok {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// innermostPID returns the last number of the NSpid line in a status file, and false if there is
// none. The directory name may be the number in an outer PID namespace, when /proc could not be
// mounted again.
func innermostPID(status string) (int, bool) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(rest)
			pid, err := strconv.Atoi(fields[len(fields)-1])
			return pid, err == nil
		}
	}
	return 0, false
}
