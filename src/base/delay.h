/* src/base/delay.h: delays at named points, which make rare interleavings frequent. Freestanding.
 *
 * DELAY("AREA.POINT") stands between two steps that another thread may come between. It is nothing
 * in a normal build. A build with -DONESPACE_DELAYS=ON, and the library in build/delays/lib that
 * the tests use, sleep there as ONESPACE_DELAY says: a list of POINT:MICROSECONDS, separated by
 * commas. The point `random` stands for all points: each sleeps now and then, for a pseudo-random
 * time of at most so many microseconds. */
#ifndef ONESPACE_BASE_DELAY_H
#define ONESPACE_BASE_DELAY_H

void delay_at(const char *point); /* only where ONESPACE_DELAYS is defined */

#ifdef ONESPACE_DELAYS
#define DELAY(point) delay_at(point)
#else
#define DELAY(point) ((void)0)
#endif

#endif
