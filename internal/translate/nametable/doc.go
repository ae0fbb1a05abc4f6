// Package nametable makes the table of NDS: which addresses the DNS proxy beside an application answers for which host.
//
// In: the services that a View sees, and the endpoints of the headless ones. Out: one NameTable for all Views that see
// the same, encoded.
// Law: pure. Equal inputs give equal bytes. A table is put together from the lines of its services, which are encoded
// once each, so a change of one service costs one service's lines and a copy.
//
// Start with [Generator.All] in generator.go. lines.go says what the table has of a service, table.go puts it together.
package nametable
