package target

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time that the process has used.
func (x *Process) CPU() time.Duration { return CPUOf(x.PID()) }

// OwnCPU is that of this program.
func OwnCPU() time.Duration { return CPUOf(os.Getpid()) }

// CPUOf reads the CPU clock of a process (clock_getcpuclockid(3)), which is finer than the ticks of
// /proc. It returns 0 if the process has ended.
func CPUOf(pid int) time.Duration {
	const cpuClockSched = 2
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|cpuClockSched, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// MachineCPU is the time that all CPUs of the machine were busy.
func MachineCPU() time.Duration {
	const ticks = 100 // USER_HZ
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var busy int64
	for i, s := range strings.Fields(string(line))[1:] {
		const idle, iowait, guest = 3, 4, 8 // the time of guests is in that of user too
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && i != idle && i != iowait && i < guest {
			busy += n
		}
	}
	return time.Duration(busy) * time.Second / ticks
}

// Memory is the memory of a process, in bytes.
type Memory struct {
	// RSS is resident memory; PSS counts pages shared with other processes in part.
	RSS int64 `json:"rss"`
	PSS int64 `json:"pss"`
	// Heap is the live Go heap after garbage collection, 0 if unknown.
	Heap int64 `json:"live_heap"`
}

// Memory reads it. With collect the process first runs garbage collections, if it can be asked to.
func (x *Process) Memory(collect bool) Memory {
	var m Memory
	if collect {
		m.Heap = x.collectGarbage()
	}
	m.RSS, m.PSS = ResidentOf(x.PID())
	return m
}

// ResidentOf returns the memory of a process in bytes: RSS, and PSS, which counts pages shared with other
// processes in part. They are 0 if it is gone.
func ResidentOf(pid int) (rss, pss int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Rss:":
			rss = n << 10
		case "Pss:":
			pss = n << 10
		}
	}
	return rss, pss
}

// Files is the number of its open file descriptors.
func (x *Process) Files() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.PID()))
	if err != nil {
		return 0
	}
	return len(list)
}

// peak is the largest RSS that was seen, in bytes.
type peak struct{ bytes atomic.Int64 }

func (p *peak) watchProcess(pid int, done <-chan struct{}) {
	const every = 50 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if n := readRSS(pid); n > p.bytes.Load() {
			p.bytes.Store(n)
		}
		select {
		case <-done:
			return
		case <-t.C:
		}
	}
}

// readRSS reads the RSS at less cost than smaps_rollup.
func readRSS(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// ResetPeak begins a new measurement of the peak, and Peak returns it: the largest RSS in bytes,
// sampled.
func (x *Process) ResetPeak() { x.peak.bytes.Store(readRSS(x.PID())) }

// Peak is the largest RSS since ResetPeak.
func (x *Process) Peak() int64 { return x.peak.bytes.Load() }
