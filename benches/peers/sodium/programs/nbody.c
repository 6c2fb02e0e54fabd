/* Bodies that attract each other, in doubles: square roots and divisions, no vectors. */
#include "program.h"
#include <math.h>
#include <stdio.h>

#define BODIES 8
#define STEPS 1000

static struct {
    double place[3], speed[3], mass;
} bodies[BODIES];

void prepare(void)
{
    uint64_t state = 11;
    for (int body = 0; body < BODIES; body++) {
        for (int axis = 0; axis < 3; axis++) {
            bodies[body].place[axis] = next_number(&state) * 0x1p-29 - 4;
            bodies[body].speed[axis] = next_number(&state) * 0x1p-31 - 1;
        }
        bodies[body].mass = 0.01 + next_number(&state) * 0x1p-34;
    }
}

static void step(double time)
{
    for (int a = 0; a < BODIES; a++) {
        for (int b = a + 1; b < BODIES; b++) {
            double x = bodies[a].place[0] - bodies[b].place[0];
            double y = bodies[a].place[1] - bodies[b].place[1];
            double z = bodies[a].place[2] - bodies[b].place[2];
            double square = x * x + y * y + z * z + 0.01;
            double pull = time / (square * sqrt(square));
            double to_a = bodies[b].mass * pull, to_b = bodies[a].mass * pull;
            bodies[a].speed[0] -= x * to_a;
            bodies[a].speed[1] -= y * to_a;
            bodies[a].speed[2] -= z * to_a;
            bodies[b].speed[0] += x * to_b;
            bodies[b].speed[1] += y * to_b;
            bodies[b].speed[2] += z * to_b;
        }
    }
    for (int body = 0; body < BODIES; body++) {
        for (int axis = 0; axis < 3; axis++) {
            bodies[body].place[axis] += time * bodies[body].speed[axis];
        }
    }
}

void pass(void)
{
    for (int i = 0; i < STEPS; i++) {
        step(0.001);
    }
}

void tell(void)
{
    double energy = 0;
    for (int body = 0; body < BODIES; body++) {
        const double *speed = bodies[body].speed;
        energy += bodies[body].mass * (speed[0] * speed[0] + speed[1] * speed[1] + speed[2] * speed[2]);
    }
    printf("%.17g at %.17g\n", energy, bodies[0].place[0]);
}
