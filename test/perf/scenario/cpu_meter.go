package scenario

import (
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
)

// meterInterval is the interval between readings of a cpuMeter.
const meterInterval = 20 * time.Millisecond

// cpuMeter reads the CPU time of processes repeatedly.
type cpuMeter struct {
	processes []*target.Process
	readings  []cpuReading
}

type cpuReading struct {
	at  time.Time
	cpu time.Duration
}

// newCPUMeter returns a meter with its first reading.
func newCPUMeter(processes []*target.Process) *cpuMeter {
	m := &cpuMeter{processes: processes}
	m.read()
	return m
}

func (m *cpuMeter) read() {
	m.readings = append(m.readings, cpuReading{time.Now(), cpuOf(m.processes)})
}

// total returns the CPU seconds between the first and the last reading.
func (m *cpuMeter) total() float64 {
	return (m.readings[len(m.readings)-1].cpu - m.readings[0].cpu).Seconds()
}

// busiestSecond returns the most CPU seconds that were used in one second, or 0 if the readings do
// not cover one.
func (m *cpuMeter) busiestSecond() float64 {
	most, first := 0.0, 0
	for _, r := range m.readings {
		for ; r.at.Sub(m.readings[first].at) >= time.Second; first++ {
			x := m.readings[first]
			most = max(most, (r.cpu-x.cpu).Seconds()/r.at.Sub(x.at).Seconds())
		}
	}
	return most
}
