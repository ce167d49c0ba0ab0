// Package sim plays the data plane under a loop and a clock of its own: simulated clients on one side, a simulated cluster
// on the other, sessions, routing, pipes and upstream between them as they are in the daemon. Every choice comes from one
// seed: what clients send and how it is split, how fast anybody reads and writes, which connections break and what was
// executed before, how slots move, when topologies and tables are swapped. So whatever goes wrong can be played again.
//
// What must hold is in oracle.go (order, no lost write, nothing executed twice, no foreign reply), client.go (each
// command has one reply, in its turn), transaction.go (what is in a transaction is executed at once, with the keys watched
// that its client watches, and on a connection with nothing of others), blocking.go (no element of a list is lost or there
// twice), pubsub.go (messages come once, in order, and only to who has subscribed) and finish.go (bounds, and that nothing
// is left over).
package sim
