package iptables

// For the tests of package iptables_test.
var (
	OriginalDestination = originalDestination
	Mapped              = isIDMapped
)
