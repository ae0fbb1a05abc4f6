package adapter

import (
	"context"
	"crypto/rand"
)

// Platform lists and watches the services of a platform. It is the part that is specific to the
// platform; everything else is done by its caller.
type Platform interface {
	// Watch reports the services of the platform to sink until ctx ends, or until it can no longer
	// know that its reports are complete, for instance because the connection is lost. It then
	// returns an error, and the caller calls Watch again after a pause that grows with the number
	// of failures. An error removes nothing. If ctx ends, Watch returns soon, with any result.
	//
	// Each call of Watch begins with every service that exists, then calls Sink.SyncedGeneration or
	// Sink.Synced, and then reports changes. It returns after all of its goroutines have ended.
	Watch(ctx context.Context, sink Sink) error
}

// PlatformFunc is a function that implements Platform.
type PlatformFunc func(ctx context.Context, sink Sink) error

// Watch calls f.
func (f PlatformFunc) Watch(ctx context.Context, sink Sink) error { return f(ctx, sink) }

// Sink receives the services of a platform. Its methods may be called by several goroutines, but
// only until the call of Watch that received the Sink returns; later calls do nothing. A call may
// block until earlier changes are processed, or ctx ends.
type Sink interface {
	// Set creates a service or replaces it, with all of its instances. An instance that is missing
	// was deregistered. Parts that are invalid are left out with a problem (NewEntries). An equal
	// service changes nothing, so a platform may report without comparing.
	Set(service Service)
	// Delete removes a service, because the platform no longer has it. It does nothing if the
	// service is unknown.
	Delete(key ServiceKey)
	// SyncedGeneration marks that every existing service was reported since Watch began. Until
	// then, services and instances that only earlier calls of Watch reported stay. After it, Set
	// and Delete apply at once. Further calls until Watch ends do nothing.
	//
	// generation identifies the data that the platform has: it differs if the platform has lost
	// data, was restored from a backup, or is another one. If it equals that of the last call,
	// services and instances that were not reported were deregistered, and are removed. Otherwise a
	// server that lost its data may have answered, so these instances are held: they stay in use
	// until they are reported again.
	//
	// A platform that decides itself what was deregistered, because it has all services in memory,
	// uses one value of NewGeneration for as long as it has them.
	SyncedGeneration(generation string)
	// Synced is SyncedGeneration of a platform whose generation is not known: all missing instances
	// are held.
	Synced()
	// Report sets the problem of a service that cannot be read or converted, or clears it if err is
	// nil. The service stays as it is, and is not removed by SyncedGeneration if Report was called
	// with an error instead of Set. Set and Delete clear the problem. A key without a name is the
	// platform itself, for problems that do not end Watch.
	Report(key ServiceKey, err error)
}

// NewGeneration returns a random generation for Sink.SyncedGeneration.
func NewGeneration() string { return rand.Text() }
