// Package marathon reads the applications of Marathon, the scheduler of Mesos and DC/OS, as a sample of
// an adapter.Platform.
//
// A [Platform] reads all applications with their tasks (GET /v2/apps?embed=apps.tasks), then follows
// the event stream (GET /v2/events) and reads an application again when an event is about it. The
// output is one service per application.
//
// It was written from Marathon's documentation and is tested with responses of the documented form. No
// live Marathon was available.
//
// Start reading with [Platform.Watch].
package marathon
