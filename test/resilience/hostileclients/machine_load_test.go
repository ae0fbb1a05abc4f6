package hostileclients

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// loadWindow is the interval over which the work of other processes is measured.
const loadWindow = time.Second

// maxSlowdown bounds how much a busy machine extends the limits of honest clients.
const maxSlowdown = 10

// cpuTimes are CPU times of the machine since it was booted, in clock ticks: of all CPUs together, of
// the part of it that was not idle, and of the part that this process and its descendants used.
type cpuTimes struct{ total, busy, own int64 }

// readCPUTimes returns the current times, or zero if they cannot be read.
func readCPUTimes() (c cpuTimes) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), "cpu "), "\n")
	for i, field := range strings.Fields(line) {
		if i >= 8 { // guest time is part of user time
			break
		}
		n, _ := strconv.ParseInt(field, 10, 64)
		c.total += n
		if i != 3 && i != 4 { // idle and iowait
			c.busy += n
		}
	}
	c.own = familyTime(os.Getpid())
	return c
}

// familyTime returns the CPU time of a process and its descendants, also of ended ones.
func familyTime(root int) (sum int64) {
	used, children := map[int]int64{}, map[int][]int{}
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
			used[pid] += n
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
	return min(total/max(total-others, 1), maxSlowdown)
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
		tick := time.NewTicker(loadWindow)
		defer tick.Stop()
		begin := readCPUTimes()
		for before := begin; ; {
			select {
			case <-m.quit:
				m.most = max(m.most, readCPUTimes().slowdownSince(begin))
				return
			case <-tick.C:
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
		{cpuTimes{200, 0, 0}, "1.0"},     // an idle machine
		{cpuTimes{200, 200, 200}, "1.0"}, // the test alone uses all CPUs
		{cpuTimes{200, 200, 100}, "2.0"}, // others use half
		{cpuTimes{200, 200, 0}, "10.0"},  // others use all
		{cpuTimes{200, 100, 150}, "1.0"}, // inaccurate times
		{cpuTimes{0, 0, 0}, "1.0"},       // times that cannot be read
		{cpuTimes{200, 60, 10}, "1.3"},   // others use a quarter, and the rest is idle
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
	for i, begin := 0, familyTime(os.Getpid()); familyTime(os.Getpid()) < begin+5; i++ {
		if i > 1e6 {
			t.Fatal("the work of this process is not measured")
		}
	}
	if now := readCPUTimes(); now.total <= before.total || now.busy <= before.busy || now.own < before.own+5 {
		t.Errorf("from %+v to %+v", before, now)
	}
}
