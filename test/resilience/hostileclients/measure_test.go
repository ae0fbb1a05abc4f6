package hostileclients

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Default bounds of attacks.
const (
	// growth is the maximum growth of a victim's resident memory during an attack, in MiB.
	growth = 200
	// kept is the maximum growth that remains 30 s after the attack, in MiB. Go returns memory to
	// the system late, and touched pages of the program stay resident.
	kept = 100
	// keptHeap is the maximum growth of the live heap 30 s after the attack, in MiB.
	keptHeap = 24
	// slack is the allowed difference in goroutines and open files: timers, and connections that
	// are reused.
	slack = 25
	// logGrowth is the maximum growth of the log in KiB, in addition to logRate KiB a second.
	logGrowth, logRate = 512, 256
	// recovery is the maximum time until a victim has returned to its state before the attack.
	recovery = 30 * time.Second
	// stopAttack is the memory, in MiB, at which an attack is stopped to protect the machine.
	stopAttack = 3 << 10
)

// usage is the resource usage of a program: memory in MiB, log in bytes. -1: unknown.
type usage struct{ resident, heap, goroutines, files, log int64 }

func (u usage) String() string {
	return fmt.Sprintf("%d MiB, heap %d MiB, %d goroutines, %d files, log %d KiB", u.resident, u.heap,
		u.goroutines, u.files, u.log>>10)
}

func (v *victim) measure() usage {
	u := usage{resident: v.resident(), heap: -1, goroutines: -1, files: -1, log: v.logSize()}
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.process.PID())); err == nil {
		u.files = int64(len(files))
	}
	if text, err := serving.Page(v.metrics); err == nil {
		u.goroutines = number(text, `(?m)^(?:istio_agent_)?go_goroutines (\S+)`)
	}
	if v.heap == "" {
		return u
	}
	if text, err := serving.Page(v.heap); err == nil {
		u.heap = number(text, `# HeapAlloc = (\d+)`) >> 20
	}
	return u
}

// number returns the first match in a text, or -1 without a match.
func number(text, pattern string) int64 {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return -1
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return -1
	}
	return int64(n)
}

// resident returns the program's resident memory in MiB, or -1 if it has ended.
func (v *victim) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.process.PID()))
	if err != nil {
		return -1
	}
	kib := number(string(text), `VmRSS:\s+(\d+) kB`)
	return max(kib>>10, -1)
}

func (v *victim) logSize() int64 {
	info, err := os.Stat(v.log)
	if err != nil {
		return -1
	}
	return info.Size()
}

// peak samples a victim's memory until stop is called.
type peak struct {
	most atomic.Int64
	quit chan struct{}
	done chan struct{}
}

// watchPeak calls exceeded once if the memory passes the limit at which an attack has to end.
func watchPeak(v *victim, exceeded func()) *peak {
	p := &peak{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			now := v.resident()
			if now > p.most.Load() {
				p.most.Store(now)
			}
			if now > stopAttack {
				exceeded()
			}
			select {
			case <-p.quit:
				return
			case <-tick.C:
			}
		}
	}()
	return p
}

func (p *peak) stop() int64 {
	close(p.quit)
	<-p.done
	return p.most.Load()
}

// recovered returns an error that names the resources of which the victim uses more than before.
func recovered(before, now usage) error {
	switch {
	case now.goroutines < 0:
		return fmt.Errorf("its metrics cannot be read")
	case now.goroutines > before.goroutines+slack:
		return fmt.Errorf("%d goroutines, %d before", now.goroutines, before.goroutines)
	case now.files > before.files+slack:
		return fmt.Errorf("%d open files, %d before", now.files, before.files)
	case now.heap > before.heap+keptHeap:
		return fmt.Errorf("a heap of %d MiB, %d before", now.heap, before.heap)
	case now.resident > before.resident+kept:
		return fmt.Errorf("%d MiB, %d before", now.resident, before.resident)
	}
	return nil
}
