// Package describe collects what the control plane knows about one workload or one service, for
// pilotctl describe and pilotctl authz check.
//
// The input is a snapshot and a connected proxy ([DescribeProxy]) or a service ([DescribeService]).
// The output is plain data with JSON names, and its text: the services, the rules and policies that
// apply with the objects that define them, the mode of mutual TLS, the Gateways through which
// services are reached from outside, and warnings.
//
// Invariants: it reads the snapshot only, and its output is sorted.
//
// Start reading with [DescribeProxy].
package describe
