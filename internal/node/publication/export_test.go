package publication

// Seen exports Publisher.seen, which receives what the watch shows.
var Seen = (*Publisher).seen

// MaxGrants exports maxGrants.
const MaxGrants = maxGrants
