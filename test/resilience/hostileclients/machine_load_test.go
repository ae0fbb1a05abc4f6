package hostileclients

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
)

// loadWindow is the interval over which the work of other processes is measured.
const loadWindow = time.Second

// maxSlowdown bounds how much a busy machine extends the limits of honest clients.
const maxSlowdown = 10

// cpuTimes are CPU times since an arbitrary moment: the time that all CPUs together could work, that
// they were busy, and that this process and its descendants used.
type cpuTimes struct{ total, busy, own time.Duration }

// startOfTests is when the total of readCPUTimes began.
var startOfTests = time.Now()

// readCPUTimes returns the current times.
func readCPUTimes() cpuTimes {
	return cpuTimes{
		total: time.Since(startOfTests) * time.Duration(runtime.NumCPU()),
		busy:  target.MachineCPU(),
		own:   familyTime(os.Getpid()),
	}
}

// tick is the unit of CPU times in /proc (USER_HZ).
const tick = 10 * time.Millisecond

// familyTime returns the CPU time of a process and its descendants, also of ended ones.
func familyTime(root int) (sum time.Duration) {
	used, children := map[int]time.Duration{}, map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file) // The process may have ended.
		_, after, found := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if !found || len(fields) < 15 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		for _, field := range fields[11:15] { // utime, stime, cutime, cstime
			n, _ := strconv.ParseInt(field, 10, 64)
			used[pid] += time.Duration(n) * tick
		}
	}
	for family := []int{root}; len(family) > 0; family = family[1:] {
		sum += used[family[0]]
		family = append(family, children[family[0]]...)
	}
	return sum
}

// slowdownSince returns the factor by which the work of other processes extended computations between
// two times: 1 on a machine that runs nothing else, 2 if others used half of its CPUs.
func (c cpuTimes) slowdownSince(before cpuTimes) float64 {
	total := float64(c.total - before.total)
	others := float64((c.busy - before.busy) - (c.own - before.own))
	if total <= 0 || others <= 0 {
		return 1
	}
	return min(total/max(total-others, float64(tick)), maxSlowdown)
}

// machineLoad measures the slowdown by other processes until stop is called.
type machineLoad struct {
	quit chan struct{}
	all  sync.WaitGroup
	most float64
}

func watchMachineLoad() *machineLoad {
	m := &machineLoad{quit: make(chan struct{}), most: 1}
	m.all.Go(func() {
		window := time.NewTicker(loadWindow)
		defer window.Stop()
		begin := readCPUTimes()
		for before := begin; ; {
			select {
			case <-m.quit:
				m.most = max(m.most, readCPUTimes().slowdownSince(begin))
				return
			case <-window.C:
			}
			now := readCPUTimes()
			m.most = max(m.most, now.slowdownSince(before))
			before = now
		}
	})
	return m
}

// stop returns the largest slowdown in any window, and in the whole time.
func (m *machineLoad) stop() float64 {
	close(m.quit)
	m.all.Wait()
	return m.most
}

// TestMachineLoad checks that the limits of honest clients are extended by the work of others only.
func TestMachineLoad(t *testing.T) {
	for _, c := range []struct {
		now  cpuTimes
		want string
	}{
		{cpuTimes{200 * tick, 0, 0}, "1.0"},                   // an idle machine
		{cpuTimes{200 * tick, 200 * tick, 200 * tick}, "1.0"}, // the test alone uses all CPUs
		{cpuTimes{200 * tick, 200 * tick, 100 * tick}, "2.0"}, // others use half
		{cpuTimes{200 * tick, 200 * tick, 0}, "10.0"},         // others use all
		{cpuTimes{200 * tick, 100 * tick, 150 * tick}, "1.0"}, // inaccurate times
		{cpuTimes{0, 0, 0}, "1.0"},                            // times that cannot be read
		{cpuTimes{200 * tick, 60 * tick, 10 * tick}, "1.3"},   // others use a quarter, and the rest is idle
	} {
		if got := fmt.Sprintf("%.1f", c.now.slowdownSince(cpuTimes{})); got != c.want {
			t.Errorf("%+v: %s, want %s", c.now, got, c.want)
		}
	}
	slow := latencies{probe: probe{name: "x", limit: answerLimit}, good: []time.Duration{1500 * time.Millisecond}}
	if slow.check(0, 1) == nil {
		t.Error("1.5 s are allowed on a quiet machine")
	}
	if err := slow.check(0, 2); err != nil {
		t.Errorf("with half of the machine: %v", err)
	}
	before := readCPUTimes()
	for i, begin := 0, familyTime(os.Getpid()); familyTime(os.Getpid()) < begin+5*tick; i++ {
		if i > 1e6 {
			t.Fatal("the work of this process is not measured")
		}
	}
	if now := readCPUTimes(); now.total <= before.total || now.busy <= before.busy || now.own < before.own+5*tick {
		t.Errorf("from %+v to %+v", before, now)
	}
}
