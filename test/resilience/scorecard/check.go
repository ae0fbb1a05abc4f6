package scorecard

import "slices"

// A Check is one line of the table.
type Check struct {
	Number int
	Title  string
	// Requirement is the condition for a full proof: the size and the pass criterion.
	Requirement string
	// Tests prove the check together. If there are none, the check is not covered.
	Tests []Test
	// Limits describes the limits of the tests: a smaller size, simulated proxies, a part that is
	// missing.
	Limits string
	// NotApplicable says why the check cannot be run for this project; "" for all others.
	NotApplicable string
}

// A Test is a top-level test function.
type Test struct {
	// Package is its directory below the root of the repository, Name the name of the function.
	Package, Name string
	// Peer is set if the test can run the binary of another control plane in the place of ours.
	Peer bool
}

// testsIn returns the tests of one package.
func testsIn(dir string, names ...string) []Test {
	list := make([]Test, len(names))
	for i, name := range names {
		list[i] = Test{Package: dir, Name: name}
	}
	return list
}

// withPeer returns the same tests, marked as able to run a peer.
func withPeer(tests []Test) []Test {
	tests = slices.Clone(tests)
	for i := range tests {
		tests[i].Peer = true
	}
	return tests
}

// Select returns the checks with these numbers, all of them if there are none. It reports unknown
// numbers.
func Select(all []Check, numbers []int) (selected []Check, unknown []int) {
	if len(numbers) == 0 {
		return all, nil
	}
	for _, n := range numbers {
		at := slices.IndexFunc(all, func(c Check) bool { return c.Number == n })
		if at < 0 {
			unknown = append(unknown, n)
			continue
		}
		selected = append(selected, all[at])
	}
	return selected, unknown
}
