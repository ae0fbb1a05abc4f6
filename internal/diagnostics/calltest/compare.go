package calltest

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// JudgeHeader adds a difference if the values of a header, joined by commas, are not *want, or if
// there are no values. If want is nil, it adds one if there are values. *want between slashes is a
// regular expression that must match a part of the values, except for :path; an invalid one is a
// difference. whose begins the text of the difference.
func JudgeHeader(d *Differences, whose, name string, want *string, values []string) {
	got := strings.Join(values, ",")
	switch {
	case want == nil && len(values) > 0:
		d.Add("%s %s is %q, want none", whose, name, got)
	case want == nil:
	case len(values) == 0:
		d.Add("%s %s is missing, want %q", whose, name, *want)
	case len(*want) > 2 && strings.HasPrefix(*want, "/") && strings.HasSuffix(*want, "/") && name != ":path":
		pattern, err := regexp.Compile((*want)[1 : len(*want)-1])
		switch {
		case err != nil:
			d.Add("the expectation of %s is no regular expression: %v", name, err)
		case !pattern.MatchString(got):
			d.Add("%s %s is %q, want a match of %s", whose, name, got, *want)
		}
	case got != *want:
		d.Add("%s %s is %q, want %q", whose, name, got, *want)
	}
}

// Means reports whether name is the workload, or its group: the part of its name before a "-".
func Means(name, workload string) bool {
	return workload == name || strings.HasPrefix(workload, name+"-")
}

// groupShares adds up the shares of workloads under the names that mean them (see Means). Other
// workloads keep their own names. If several names mean a workload, any of them gets its share.
func groupShares(names Shares, shares map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for workload, share := range shares {
		under := workload
		for name := range names {
			if Means(name, workload) {
				under = name
			}
		}
		out[under] += share
	}
	return out
}

// judgeShares adds a difference for each name whose share in got is not the one in want, in
// percent. what begins the text. It adds none if want is nil, and allows for rounding. A difference
// up to 0.6 for an expected name, and 0.1 for any other, is allowed.
func judgeShares(d *Differences, what string, want Shares, got map[string]float64) {
	if want == nil {
		return
	}
	got = groupShares(want, got)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if math.Abs(got[name]-want[name]) > 0.6 {
			d.Add("%s %s in %.1f%% of calls, want %.1f%%", what, name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, wanted := want[name]; !wanted && got[name] > 0.1 {
			d.Add("%s %s in %.1f%% of calls, want none", what, name, got[name])
		}
	}
}
